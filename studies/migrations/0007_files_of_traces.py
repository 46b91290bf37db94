from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('studies', '0006_throughputs_of_traces')]

    operations = [
        migrations.RemoveConstraint(model_name='trace', name='trace_has_jobs'),
        migrations.RenameField(model_name='trace', old_name='jobs', new_name='records'),
        migrations.AlterField(
            model_name='trace',
            name='records',
            field=models.PositiveIntegerField(help_text='Lines that are jobs, machines or what else the file holds.'),
        ),
        migrations.AddConstraint(
            model_name='trace',
            constraint=models.CheckConstraint(condition=models.Q(('records__gte', 1)), name='trace_has_records'),
        ),
    ]
