import cluster.models
import django.core.validators
import django.db.models.deletion
import uuid
from decimal import Decimal
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # The first of this project: later ones of Django's would render all models of these rooms again, each time.
    dependencies = [
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Cluster',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(help_text='Name of the cluster in addresses.', max_length=60, unique=True)),
                ('title', models.CharField(max_length=120)),
                ('note', models.TextField(blank=True, help_text="Shown on the market's page. State here if values are synthetic.")),
                ('epoch', models.DateTimeField(help_text='Start of slot 0.', validators=[cluster.models.in_calendar])),
                ('slot_seconds', models.PositiveIntegerField(help_text='Length of a slot in seconds.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000000)])),
                ('horizon_slots', models.PositiveIntegerField(help_text='Number of slots on sale, from the next one on.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10000)])),
                ('standing_by_default', models.BooleanField(default=True, help_text='Whether bids that do not say so stand: a bid rejected for its price or for lack of room is tried again. It has no effect where no prices are posted.')),
                ('clock_kind', models.CharField(choices=[('real', 'Real time'), ('virtual', 'Virtual time')], default='real', max_length=10)),
                ('clock_running', models.BooleanField(default=True)),
                ('clock_speed', models.FloatField(default=1.0, help_text='Cluster seconds per wall-clock second, for a virtual clock.', validators=[cluster.models.finite, django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(100000.0)])),
                ('clock_offset_s', models.FloatField(default=0.0, help_text='Reading of the clock at `clock_origin`, seconds after the epoch.')),
                ('clock_origin', models.DateTimeField(blank=True, help_text='Wall-clock time at which the virtual clock was last set.', null=True)),
                ('revision', models.UUIDField(default=uuid.uuid4, editable=False, help_text='Another one after each change of the cluster, its servers, machine types or models, but for its clock: what a process has read is valid while the revision is the same.')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('slot_seconds__gte', 1), ('slot_seconds__lte', 1000000000)), name='cluster_slot_at_least_1_s'), models.CheckConstraint(condition=models.Q(('horizon_slots__gte', 1), ('horizon_slots__lte', 10000)), name='cluster_horizon_at_least_1_slot'), models.CheckConstraint(condition=models.Q(('clock_speed__gt', 0), ('clock_speed__lte', 100000.0)), name='cluster_clock_runs_forward', violation_error_message='The clock must run forward: a speed above 0 and at most 100000.'), models.CheckConstraint(condition=models.Q(('clock_kind__in', ['real', 'virtual'])), name='cluster_clock_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='MachineType',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('worker', 'Worker'), ('ps', 'Parameter server')], max_length=10)),
                ('name', models.CharField(max_length=60, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9._-]*\\Z', 'Use letters, digits, dots, dashes and underscores.')])),
                ('bandwidth_mbps', models.DecimalField(decimal_places=4, help_text='Bandwidth that one machine reserves, Mbit/s.', max_digits=14, validators=[django.core.validators.MinValueValidator(Decimal('0.0001')), django.core.validators.MaxValueValidator(Decimal('1000000000'))])),
                ('position', models.PositiveIntegerField(default=0)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='machine_types', to='cluster.cluster')),
            ],
            options={
                'ordering': ['role', 'position', 'pk'],
                'constraints': [models.UniqueConstraint(fields=('cluster', 'role', 'name'), name='machine_type_name_once'), models.CheckConstraint(condition=models.Q(('bandwidth_mbps__gt', 0)), name='machine_type_has_bandwidth'), models.CheckConstraint(condition=models.Q(('role__in', ['worker', 'ps'])), name='machine_type_role_known')],
            },
        ),
        migrations.CreateModel(
            name='ModelProfile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9._-]*\\Z', 'Use letters, digits, dots, dashes and underscores.')])),
                ('gradient_mb', models.FloatField(help_text='Size of the gradients, MB; it equals the size of the parameters.', validators=[cluster.models.finite, django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000.0)])),
                ('chunks', models.PositiveIntegerField(help_text='Number of data chunks.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10000)])),
                ('minibatches', models.PositiveIntegerField(help_text='Number of mini-batches in a chunk.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)])),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='profiles', to='cluster.cluster')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('cluster', 'name'), name='profile_name_once'), models.CheckConstraint(condition=models.Q(('gradient_mb__gte', 0), ('gradient_mb__lte', 1000000000.0)), name='profile_gradient_not_negative'), models.CheckConstraint(condition=models.Q(('chunks__gte', 1), ('chunks__lte', 10000), ('minibatches__gte', 1), ('minibatches__lte', 1000000)), name='profile_has_data')],
            },
        ),
        migrations.CreateModel(
            name='Resource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9._-]*\\Z', 'Use letters, digits, dots, dashes and underscores.')])),
                ('unit', models.CharField(default='unit', max_length=20)),
                ('position', models.PositiveIntegerField(default=0)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='resources', to='cluster.cluster')),
            ],
            options={
                'ordering': ['position', 'pk'],
                'constraints': [models.UniqueConstraint(fields=('cluster', 'name'), name='resource_name_once')],
            },
        ),
        migrations.CreateModel(
            name='Demand',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('amount', models.PositiveIntegerField(validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)])),
                ('machine_type', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='demands', to='cluster.machinetype')),
                ('resource', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='demands', to='cluster.resource')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('machine_type', 'resource'), name='demand_once'), models.CheckConstraint(condition=models.Q(('amount__gte', 1), ('amount__lte', 1000000)), name='demand_at_least_1')],
            },
        ),
        migrations.CreateModel(
            name='Server',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9._-]*\\Z', 'Use letters, digits, dots, dashes and underscores.')])),
                ('kind', models.CharField(choices=[('edge', 'Edge'), ('cloud', 'Cloud')], default='edge', max_length=10)),
                ('upload_delay_s', models.FloatField(default=0.0, help_text="Default time to upload a job's data, seconds; a bid may state another one.", validators=[cluster.models.finite, django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000.0)])),
                ('storage_mb', models.FloatField(blank=True, help_text="Storage for jobs' data, MB, if the market's policy uses it; empty for no limit.", null=True, validators=[cluster.models.finite, django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000.0)])),
                ('position', models.PositiveIntegerField(default=0)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='servers', to='cluster.cluster')),
            ],
            options={
                'ordering': ['position', 'pk'],
                'constraints': [models.UniqueConstraint(fields=('cluster', 'name'), name='server_name_once'), models.CheckConstraint(condition=models.Q(('storage_mb__isnull', True), models.Q(('storage_mb__gte', 0), ('storage_mb__lte', 1000000000.0)), _connector='OR'), name='server_storage_not_negative'), models.CheckConstraint(condition=models.Q(('upload_delay_s__gte', 0), ('upload_delay_s__lte', 1000000000.0)), name='server_delay_not_negative'), models.CheckConstraint(condition=models.Q(('kind__in', ['edge', 'cloud'])), name='server_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='Capacity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('amount', models.PositiveIntegerField(validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000)])),
                ('resource', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='capacities', to='cluster.resource')),
                ('server', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='capacities', to='cluster.server')),
            ],
            options={
                'verbose_name_plural': 'capacities',
                'constraints': [models.UniqueConstraint(fields=('server', 'resource'), name='capacity_once'), models.CheckConstraint(condition=models.Q(('amount__gte', 0), ('amount__lte', 1000000)), name='capacity_in_range')],
            },
        ),
        migrations.CreateModel(
            name='StepTime',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seconds', models.FloatField(validators=[cluster.models.finite, django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000.0)])),
                ('machine_type', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='step_times', to='cluster.machinetype')),
                ('profile', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='step_times', to='cluster.modelprofile')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('profile', 'machine_type'), name='step_time_once'), models.CheckConstraint(condition=models.Q(('seconds__gte', 0), ('seconds__lte', 1000000000.0)), name='step_time_not_negative')],
            },
        ),
    ]
